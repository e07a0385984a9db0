"""PAMD and the rivals without a distance, trained from pixels at scale `cpu`."""
