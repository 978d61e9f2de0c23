"""Trunkline: a durable gateway for the Agent2Agent protocol."""
