"""Reports, and the result tables that pipelines write."""
