"""Front ends: the doors through which other processes reach a broker.  None knows another."""
