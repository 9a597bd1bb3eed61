"""What a program sees of a broker, wherever it is: in the process, or at the end of a connection."""
