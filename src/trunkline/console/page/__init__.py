"""The page over HTTP: its files and headers, the sessions of browsers and how they begin, and what
the gateway says of itself."""
