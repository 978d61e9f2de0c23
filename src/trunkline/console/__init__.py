"""Routes below `/api/v1` for the page of the gateway, and for programs that watch it."""
