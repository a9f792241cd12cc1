"""Seatbelt: the macOS backend. No macOS kernel has run it in this release."""
