package main

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
)

// isMountHelper reports whether mount(8) runs us: as mount.svcfs it is given the
// lines of fstab whose type is svcfs.
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
	who, err := user.Current()
	if err != nil {
		return
	}
	if home, err := os.Stat(who.HomeDir); err == nil && home.IsDir() {
		_ = os.Setenv("HOME", who.HomeDir)
	}
}

// helperFlags are mount options that are flags of the mount command, with "_" for "-".
func helperFlags() map[string]bool { // whether it wants a value
	return map[string]bool{"allow_mkdir": false, "allow_delete": false, "allow_crawlers": false, "insecure_http": false,
		"budget": true, "budget_per_hour": true, "cache_size": true, "staging_size": true, "max_file_size": true, "umask": true,
		"log_level": true, "log_file": true, "scratch": true, "idle_unmount": true, "volume_name": true,
		"own_all": false, "foreign_uid": true,
		"url": true, "network": true, "api_key_file": true, "config": true}
}

// helperIgnores are options that mount(8) acts on itself or that need nothing.
func helperIgnores(name string) bool {
	switch name {
	case "defaults", "auto", "noauto", "user", "users", "nouser", "owner", "group", "nofail", "_netdev", "suid", "nosuid", "dev", "nodev",
		"async", "atime", "noatime", "relatime", "default_permissions", "comment":
		return true
	}
	return strings.HasPrefix(name, "x-")
}

// helperArgs turns the arguments of a mount helper, SOURCE DIR [-sfnv] [-o LIST]
// (mount(8), "External helpers"), into those of the mount command. SOURCE is the
// account, also after "svcfs:"; "svcfs" and "none" leave it to the settings. With
// -f nothing is to be done, and the result is nil.
func helperArgs(args []string) ([]string, error) {
	var plain, options []string
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-f":
			return nil, nil
		case arg == "-o" || arg == "-t" || arg == "-N":
			if i++; i == len(args) {
				return nil, usage("see: man 8 mount", arg+" wants a value")
			}
			if arg == "-o" {
				options = append(options, strings.Split(args[i], ",")...)
			}
		case strings.HasPrefix(arg, "-"): // -s, -n, -v and their like change nothing
		default:
			plain = append(plain, arg)
		}
	}
	if len(plain) != 2 {
		return nil, usage("usage: mount.svcfs ACCOUNT DIR [-o OPTIONS]", "got "+plural(len(plain), "argument"))
	}
	flags := []string{"mount", "--background"}
	if account := strings.TrimPrefix(plain[0], "svcfs:"); account != "svcfs" && account != "none" {
		flags = append(flags, "--account="+account)
	}
	for _, o := range options {
		flag, err := helperOption(o)
		if err != nil {
			return nil, err
		}
		if flag != "" {
			flags = append(flags, flag)
		}
	}
	return append(flags, "--", plain[1]), nil
}

// helperOption returns the flag for one mount option, "" when it needs none.
func helperOption(option string) (string, error) {
	name, value, hasValue := strings.Cut(option, "=")
	wantsValue, isFlag := helperFlags()[name]
	switch {
	case option == "" || helperIgnores(name):
		return "", nil
	case slices.Contains([]string{"ro", "rw", "exec", "noexec", "allow_other", "uid", "gid"}, name):
		return "--options=" + option, nil
	case !isFlag:
		return "", usage("the options of fstab are those of: svcfs help mount, with _ for -", fmt.Sprintf("unknown mount option %q", option))
	case wantsValue != hasValue:
		return "", usage("write "+name+"=VALUE for options with a value, and only for them", fmt.Sprintf("mount option %q", option))
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
