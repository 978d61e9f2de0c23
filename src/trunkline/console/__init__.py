"""The console: routes below `/api/v1` for the page of the gateway and programs that watch it."""
