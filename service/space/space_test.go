package space

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// keeper is one of two disks of 1000 bytes, of which so many are free.
func keeper(reserve int64, database, files *int64) *Keeper {
	k := New(reserve, map[string]string{Database: "database", Files: "files"})
	k.look = func(dir string) (int64, int64) {
		if dir == "files" {
			return *files, 1000
		}
		return *database, 1000
	}
	return k
}

func TestRoom(t *testing.T) {
	for _, tc := range []struct {
		name                        string
		reserve, database, files, n int64
		refused                     bool
		state                       State
		left                        int64
	}{
		{"empty", 0, 1000, 1000, 900, false, OK, 900},
		{"more than there is", 0, 1000, 1000, 901, true, OK, 900},
		{"little left", 0, 1000, 299, 199, false, Low, 199},
		{"little left of the database", 0, 299, 1000, 0, false, Low, 900},
		{"the reserve", 0, 1000, 99, 0, true, Full, 0},
		{"the reserve of the database", 0, 99, 1000, 0, true, Full, 0},
		{"another reserve", 500, 1000, 600, 100, false, Low, 100},
		{"another reserve is reached", 500, 1000, 500, 1, true, Low, 0},
		{"no reserve", -1, 1, 1, 1, false, OK, 1},
		{"no reserve, no room", -1, 1, 0, 0, true, Full, 0},
		{"not known", 0, -1, -1, 1 << 40, false, OK, -1},
	} {
		k := keeper(tc.reserve, &tc.database, &tc.files)
		if err := k.Room(tc.n); (err != nil) != tc.refused {
			t.Errorf("%s: %v", tc.name, err)
		}
		if k.State() != tc.state || k.Left() != tc.left {
			t.Errorf("%s: %s, %d left", tc.name, k.State(), k.Left())
		}
	}
}

// Bytes under way count until they are written, and no longer.
func TestRoomOfUploadsUnderWay(t *testing.T) {
	database, files := int64(1000), int64(1000)
	k := keeper(0, &database, &files)
	first, err := k.Begin(800)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Begin(101); err == nil {
		t.Error("the same room was promised twice")
	}
	if _, err := io.CopyN(io.Discard, first.Reader(strings.NewReader(strings.Repeat("x", 1000))), 300); err != nil {
		t.Fatal(err)
	}
	files -= 300
	if left := k.Left(); left != 100 {
		t.Errorf("%d left while 500 are to come", left)
	}
	first.End()
	first.End()
	if left := k.Left(); left != 600 {
		t.Errorf("%d left after it ended", left)
	}
}

// An upload ends when others have used the room meanwhile.
func TestRoomIsLookedAtMeanwhile(t *testing.T) {
	database, files := int64(1000), int64(1000)
	k := keeper(0, &database, &files)
	u, err := k.Begin(0) // it did not say how long it is
	if err != nil {
		t.Fatal(err)
	}
	defer u.End()
	files = 50
	n, err := io.Copy(io.Discard, u.Reader(bytes.NewReader(make([]byte, 4*lookEvery))))
	if err == nil || n > lookEvery {
		t.Errorf("%d bytes were taken, %v", n, err)
	}
}

// A place whose disk is elsewhere is full by its own word, for a while.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		database, files := int64(-1), int64(-1)
		k := keeper(0, &database, &files)
		k.Refused(Files, time.Minute)
		if k.State() != Full || k.Room(0) == nil {
			t.Error("it is tried again at once")
		}
		time.Sleep(time.Minute)
		if k.State() != OK || k.Room(1) != nil {
			t.Error("it is not tried again")
		}
		k.Refused(Database, time.Minute)
		k.Freed(Database)
		if k.Room(1) != nil {
			t.Error("it is not tried again after room was made")
		}
	})
}
