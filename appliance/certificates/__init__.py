"""Certificates of this machine: read for the ports of HTTP, made, looked at.

keystore       the certificate and key that the settings name, PEM or PKCS#12
https          what the ports of HTTP speak TLS with, read again when the files change
first_byte     who comes without TLS is told so
offered        what a port offers that speaks TLS
certificate    what is written in a certificate
authority      an authority of one's own, and certificates that it signs
"""
