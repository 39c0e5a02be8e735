"""Shared by the integration tests: a running tallyd, a client, an oracle."""
