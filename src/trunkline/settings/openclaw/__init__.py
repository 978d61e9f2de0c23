"""An existing `openclaw.json` as settings."""
