"""Learning curves of Stable-Baselines3 with and without a metric (docs/integrations/sb3.md)."""
