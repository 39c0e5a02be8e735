"""What the integration tests share: a running tallyd, a client, an oracle."""
