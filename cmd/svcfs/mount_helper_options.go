package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
)

// isMountHelper reports whether mount(8) runs us: as mount.svcfs it is given the
// lines of fstab whose type is svcfs; mount -o remount looks for the type that the kernel knows.
func isMountHelper(program string) bool {
	name := filepath.Base(program)
	return name == "mount.svcfs" || name == "mount.fuse.svcfs"
}

// findHome sets HOME where it is missing: mount(8) takes it away from an ordinary
// user's mount, and at boot there is none. It is where the settings and the log are.
func findHome() {
	if os.Getenv("HOME") != "" {
		return
	}
	if who, err := user.Current(); err == nil && hasHome(who) {
		_ = os.Setenv("HOME", who.HomeDir)
	}
}

func hasHome(who *user.User) bool {
	home, err := os.Stat(who.HomeDir)
	return err == nil && home.IsDir()
}

// helperFlags are mount options that are flags of the mount command, with "_" for "-".
func helperFlags() map[string]bool { // whether it wants a value
	return map[string]bool{"allow_mkdir": false, "allow_delete": false, "allow_crawlers": false, "insecure_http": false,
		"budget": true, "budget_per_hour": true, "cache_size": true, "staging_size": true, "max_file_size": true,
		"umask":     true,
		"log_level": true, "log_file": true, "scratch": true, "idle_unmount": true, "volume_name": true,
		"limit": true, "own_all": false, "foreign_uid": true,
		"url": true, "network": true, "api_key_file": true, "config": true}
}

// helperIgnores are options that mount(8) acts on itself or that need nothing.
func helperIgnores(name string) bool {
	switch name {
	case "defaults", "auto", "noauto", "user", "users", "nouser", "owner", "group", "nofail", "_netdev", "suid",
		"nosuid", "dev", "nodev",
		"async", "atime", "noatime", "relatime", "default_permissions", "comment":
		return true
	}
	return strings.HasPrefix(name, "x-")
}

// helperCall is what mount(8) gives to a mount helper: SOURCE DIR [-sfnv] [-o LIST]
// (mount(8), "External helpers").
type helperCall struct {
	source, dir string
	options     []string
	pretend     bool // -f: nothing is to be done
}

func parseHelperCall(args []string) (c helperCall, err error) {
	var plain []string
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-f":
			return helperCall{pretend: true}, nil
		case arg == "-o" || arg == "-t" || arg == "-N":
			if i++; i == len(args) {
				return c, usage("see: man 8 mount", arg+" wants a value")
			}
			if arg == "-o" {
				c.options = append(c.options, strings.Split(args[i], ",")...)
			}
		case strings.HasPrefix(arg, "-"): // -s, -n, -v and their like change nothing
		default:
			plain = append(plain, arg)
		}
	}
	if len(plain) != 2 {
		return c, usage("usage: mount.svcfs ACCOUNT DIR [-o OPTIONS]", "got "+plural(len(plain), "argument"))
	}
	c.source, c.dir = plain[0], plain[1]
	return c, nil
}

// args returns those of the mount command. The source is the account, also after
// "svcfs:"; "svcfs" and "none" leave it to the settings.
func (c helperCall) args() ([]string, error) {
	flags := []string{"mount", "--background"}
	if account := strings.TrimPrefix(c.source, "svcfs:"); account != "svcfs" && account != "none" {
		flags = append(flags, "--account="+account)
	}
	for _, o := range c.options {
		flag, err := helperOption(o)
		if err != nil {
			return nil, err
		}
		if flag != "" {
			flags = append(flags, flag)
		}
	}
	return append(flags, "--", c.dir), nil
}

// option returns the value of the last option called name, "" without one.
func (c helperCall) option(name string) string {
	value := ""
	for _, o := range c.options {
		if v, ok := strings.CutPrefix(o, name+"="); ok {
			value = v
		}
	}
	return value
}

// helperOption returns the flag for one mount option, "" when it needs none.
func helperOption(option string) (string, error) {
	name, value, hasValue := strings.Cut(option, "=")
	wantsValue, isFlag := helperFlags()[name]
	switch {
	case option == "" || helperIgnores(name):
		return "", nil
	case name == "remount":
		return "", refuse(exitUsage, "unmount it, and mount it again with the new options: svcfs umount DIR",
			errors.New("a mount of svcfs keeps its options while it lasts: it cannot be remounted"))
	case slices.Contains([]string{"ro", "rw", "exec", "noexec", "allow_other", "uid", "gid"}, name):
		return "--options=" + option, nil
	case !isFlag:
		return "", usage("the options of fstab are those of: svcfs help mount, with _ for -",
			fmt.Sprintf("unknown mount option %q", option))
	case wantsValue != hasValue:
		return "", usage("write "+name+"=VALUE for options with a value, and only for them",
			fmt.Sprintf("mount option %q", option))
	}
	return "--" + strings.ReplaceAll(name, "_", "-") + strings.TrimPrefix(option, name), checkHelperValue(name, value)
}

// checkHelperValue refuses a relative path: the helper runs wherever mount(8) was.
func checkHelperValue(name, value string) error {
	switch name {
	case "api_key_file", "config", "log_file":
		if !filepath.IsAbs(value) {
			return usage("give an absolute path", fmt.Sprintf("%s=%s", name, value))
		}
	}
	return nil
}
