"""Hosts that attach by HTTP requests alone, as the relay serves them."""
