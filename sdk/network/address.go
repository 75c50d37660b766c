package network

import (
	"net/url"
	"strings"
)

// NormalAddress returns the address of a service as sdk.NetworkInfo has it: the host in lower case, without
// the port that its scheme has anyway, and without a slash at the end. Text that is no address stays, but
// for that slash.
func NormalAddress(address string) string {
	address = strings.TrimRight(address, "/")
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	u.Host = strings.ToLower(u.Host)
	switch u.Scheme {
	case "https":
		u.Host = strings.TrimSuffix(u.Host, ":443")
	case "http":
		u.Host = strings.TrimSuffix(u.Host, ":80")
	}
	return u.String()
}
