"""Scheduled exports: their definitions, how their runs ended, and what is kept for them."""
