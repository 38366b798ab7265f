"""Kills processes at random moments and checks that nothing is lost, doubled or left behind."""
