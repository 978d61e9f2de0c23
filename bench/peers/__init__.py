"""The servers Trunkline is compared with: each the echo agent that its own documentation would write."""
