"""The commands of `isoloss`, one file each."""
