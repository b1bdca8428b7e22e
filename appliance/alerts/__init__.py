"""Alerts: what health finds and the ledger has leaves the box, by mail and by a webhook.

`conditions` says what is told and when, `outbox` keeps it until it is delivered, `mail` and
`webhook` deliver. This room decides nothing about the broker: that is `broker/health.py`.
"""
