"""Workspaces: repositories, worktrees, and whether a Unix user can reach a folder."""
