"""The servers Trunkline is compared with: each an echo agent as its own documents write it."""
