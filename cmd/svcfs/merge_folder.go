package main

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mergeFolder begins the name of a folder with the versions of a conflict.
const mergeFolder = "svcfs-merge-"

// maxMergeFolders bounds how often a folder is made anew that was swept away in the moment before it was locked.
const maxMergeFolders = 10

// placesInMemory are folders whose files are in memory.
func (a *app) placesInMemory() (places []string) {
	for _, place := range []string{a.env.get("XDG_RUNTIME_DIR"), "/dev/shm"} {
		var on unix.Statfs_t
		if place != "" && unix.Statfs(place, &on) == nil && on.Type == unix.TMPFS_MAGIC {
			places = append(places, place)
		}
	}
	return places
}

// memoryFolder makes a folder in memory that only this user reads, and locks it: as long as the file, or a copy of it
// in another process, is open, sweepMerges leaves the folder alone.
func (a *app) memoryFolder() (lock *os.File, err error) {
	for _, place := range a.placesInMemory() {
		for range maxMergeFolders {
			dir, err := os.MkdirTemp(place, mergeFolder)
			if err != nil {
				break
			}
			if lock := lockMerge(dir); lock != nil {
				return lock, nil
			}
		}
	}
	return nil, refuse(exitOther, "settle it with --keep", errors.New("no folder of this machine is in memory: "+
		"content is never written to a disk"))
}

// lockMerge locks a folder of this user; nil = somebody else has it, or it is not there.
func lockMerge(dir string) *os.File {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	lock := os.NewFile(uintptr(fd), dir)
	var opened, named unix.Stat_t
	if unix.Fstat(fd, &opened) == nil && int(opened.Uid) == os.Geteuid() &&
		unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil && unix.Lstat(dir, &named) == nil && named.Ino == opened.Ino {
		return lock
	}
	_ = lock.Close()
	return nil
}

// sweepMerges removes the folders of merges whose programs have ended without doing so.
func (a *app) sweepMerges() {
	for _, place := range a.placesInMemory() {
		left, err := filepath.Glob(filepath.Join(place, mergeFolder+"*"))
		if err != nil { // the place has a character of patterns in its name
			continue
		}
		for _, dir := range left {
			if lock := lockMerge(dir); lock != nil {
				_ = os.RemoveAll(dir)
				_ = lock.Close()
			}
		}
	}
}
