"""Backups of one home: a consistent copy of its database in one file, and the way back.

archive    the file: a tar with a manifest and checksums
snapshot   a copy of the database at one moment, whichever database it is
backup     makes a backup, while a daemon runs or not
restore    puts one in place, all of it or nothing

working_folder   the folders that they work in; those of killed processes are removed later
"""
