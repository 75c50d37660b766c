package fs

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

func confined(p *plan) { p.Confine = true }

// Threat 19: a mount that confined itself is still taken away, says who uses it, and
// knows what other processes have open.
func TestThreat19ConfinedMountUnmounts(t *testing.T) {
	m := mounting(t, confined)
	m.write("team/f", "x")
	m.unmountsOnceUnused()
}

// Threat 19: W2 in a confined mount.
func TestThreat19ConfinedMountKnowsDescriptors(t *testing.T) {
	m := mounting(t, confined)
	before := m.must(order{Do: "counts"}).Counts.Uploads
	cmd := exec.Command("sh", "-c", "{ /bin/echo a; /bin/echo b; } >f")
	cmd.Dir = m.path("team")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	c := m.must(order{Do: "counts"})
	if got := m.read("team/f"); got != "a\nb\n" || c.Counts.Uploads != before+1 {
		t.Errorf("%q with %d uploads", got, c.Counts.Uploads-before)
	}
}

// The process outside answers who asks while another waits, refuses what it was not
// made for, and ends with the process that made it.
func TestOutside(t *testing.T) {
	o, err := StartOutside(place(t), -1)
	if err != nil {
		t.Fatal(err)
	}
	if o.hasLoaded(uint32(os.Getpid()), "no such library") {
		t.Error("a library is loaded that there is not")
	}
	if err := o.unmount(false); err == nil || errors.Is(err, errOutside) {
		t.Errorf("unmounted what is not mounted: %v", err)
	}
	if list := o.holders(""); list != nil {
		t.Errorf("holders: %v", list)
	}
	if err := unix.Sendmsg(o.socket, []byte("nonsense"), nil, nil, 0); err != nil {
		t.Error(err)
	}
	if _, err := o.ask(outsideRequest{Do: "nonsense"}); err != nil {
		t.Error(err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if _, err := o.ask(outsideRequest{Do: askHolders}); !errors.Is(err, errOutside) {
		t.Errorf("after its end: %v", err)
	}
}
