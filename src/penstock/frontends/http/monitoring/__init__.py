"""What the dashboard shows over time: alerts, pipeline reports and metric history."""
