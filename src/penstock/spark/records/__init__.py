"""Records as Arrow rows and the planning of reads, shared by the source and the lake."""
