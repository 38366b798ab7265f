"""The command `agor`; one file per command group, and the only place that prints or exits."""
