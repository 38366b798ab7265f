"""Where executors run: one small interface (`base`), and one module per kind that fills it."""
