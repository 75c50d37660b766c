package blob

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/svcfs/svcfs/sdk/ownfile"
)

const (
	s3Scheme        = "s3://"
	defaultEndpoint = "https://s3.amazonaws.com"
	defaultRegion   = "us-east-1"
)

// Location says where a bucket is.
type Location struct {
	Bucket    string
	Prefix    string   // of every key, without slashes around it; "" = none
	Endpoint  *url.URL // scheme and host only
	Region    string
	PathStyle bool // bucket in the path, not in the host name
}

// ParseLocation reads s3://BUCKET[/PREFIX]?endpoint=URL&region=NAME&path-style=BOOL.
// The endpoint is Amazon's unless given, the region us-east-1; path style is for
// servers of one host name. Its errors never repeat a password.
func ParseLocation(text string) (Location, error) {
	wrong := func(what string) (Location, error) {
		return Location{}, fmt.Errorf("blob store: %s; want "+
			"s3://BUCKET[/PREFIX]?endpoint=http://HOST:PORT&region=NAME&path-style=true", what)
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme+"://" != s3Scheme || u.Fragment != "" {
		return wrong("the address is not understood")
	}
	if u.User != nil {
		return wrong("credentials do not belong into the address: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	l := Location{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), Region: defaultRegion}
	if err := s3utils.CheckValidBucketNameStrict(l.Bucket); err != nil {
		return wrong(fmt.Sprintf("bucket %q: %v", l.Bucket, err))
	}
	if l.Prefix != "" && (path.Clean(l.Prefix) != l.Prefix || strings.HasPrefix(l.Prefix, "..")) {
		return wrong(fmt.Sprintf("prefix %q", l.Prefix))
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return wrong("the part after ? is not understood")
	}
	endpoint := defaultEndpoint
	for name, values := range query {
		switch value := values[len(values)-1]; name {
		case "endpoint":
			endpoint = value
		case "region":
			l.Region = value
		case "path-style":
			if l.PathStyle, err = strconv.ParseBool(value); err != nil {
				return wrong("path-style is true or false")
			}
		default:
			return wrong(fmt.Sprintf("%q is not a setting", name))
		}
	}
	l.Endpoint, err = url.Parse(endpoint)
	if err != nil || l.Endpoint.Scheme != "http" && l.Endpoint.Scheme != "https" || l.Endpoint.Host == "" ||
		strings.Trim(l.Endpoint.Path, "/") != "" || l.Endpoint.User != nil || l.Endpoint.RawQuery != "" {
		return wrong("the endpoint is not http://HOST[:PORT] or https://HOST[:PORT]")
	}
	return l, nil
}

// CheckEncrypted refuses a location whose requests would cross a network without TLS.
// Others on that network could cut the requests off, change them or keep the ciphertext.
func CheckEncrypted(location string) error {
	if !strings.HasPrefix(location, s3Scheme) {
		return nil
	}
	l, err := ParseLocation(location)
	if err != nil {
		return nil // Open reports it
	}
	host := l.Endpoint.Hostname()
	if l.Endpoint.Scheme == "https" || strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback() {
		return nil
	}
	return fmt.Errorf("the file store at http://%s is on another machine, without TLS: give an endpoint with https",
		l.Endpoint.Host)
}

// missing is the text for a bucket that does not exist.
func (l Location) missing() string {
	return fmt.Sprintf("bucket %q does not exist at %s, or not for these credentials: make it with: "+
		"aws --endpoint-url %s s3 mb s3://%s",
		l.Bucket, l.Endpoint.Host, l.Endpoint.Scheme+"://"+l.Endpoint.Host, l.Bucket)
}

// findCredentials finds the operator's keys in the environment, else in the
// file of the AWS tools.
func findCredentials() (*credentials.Credentials, error) {
	file := os.Getenv("AWS_SHARED_CREDENTIALS_FILE")
	if file != "" {
		f, err := ownfile.Open(file, ownfile.Managed) // the library does not check who may have written it
		if err != nil {
			return nil, fmt.Errorf("find S3 credentials: %w", err)
		}
		_ = f.Close()
	}
	creds := credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{Filename: file}})
	value, err := creds.GetWithContext(nil)
	if err != nil {
		return nil, fmt.Errorf("find S3 credentials: %w", err)
	}
	if value.AccessKeyID == "" || value.SecretAccessKey == "" {
		return nil, errors.New("no S3 credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or " +
			"AWS_SHARED_CREDENTIALS_FILE to a file that holds them")
	}
	return creds, nil
}
