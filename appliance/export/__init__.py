"""Scheduled exports: definitions, results of runs, and retention holds."""
