"""Durable events: group commit against bare loops and the usual libraries."""
