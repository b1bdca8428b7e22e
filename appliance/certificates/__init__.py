"""Certificates of this machine: read for the ports of HTTP, made, looked at.

keystore       the certificate and key that the settings name, PEM or PKCS#12
https          what the ports of HTTP speak TLS with, read again when the files change
certificate    what is written in a certificate
authority      an authority of one's own, and certificates that it signs
"""
