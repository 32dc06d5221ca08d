package store

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Checksum says when requests carry a checksum in addition to the signed sha256.
type Checksum string

// The checksum modes have the names of the AWS tools.
const (
	ChecksumWhenRequired  Checksum = "when_required"  // the default: servers other than AWS may not know them
	ChecksumWhenSupported Checksum = "when_supported" // the AWS client's own default
)

// defaultRegion is the region in signatures for servers without regions.
const defaultRegion = "us-east-1"

// maxParallel is the maximum number of parts of one value that are uploaded at once.
const maxParallel = 16

// S3Config is a store in a bucket. Its URL is s3://bucket/prefix. These query parameters take precedence over the
// environment:
//
//	endpoint=https://host:port   SEALIFT_S3_ENDPOINT    a server other than AWS
//	region=eu-central-1          SEALIFT_S3_REGION      default: that of the AWS settings, else us-east-1
//	path-style=true              SEALIFT_S3_PATH_STYLE  bucket in the path; the default with an endpoint
//	checksum=when_supported      SEALIFT_S3_CHECKSUM    default: when_required
//	parallel=4                   SEALIFT_S3_PARALLEL    parts uploaded at once; default 1
//
// The URL never contains credentials. They are read from where the AWS tools look for them.
type S3Config struct {
	Bucket    string
	Prefix    string // of all keys: empty, or with a slash at its end
	Endpoint  string // empty: AWS, or the endpoint of the AWS settings
	Region    string // empty: the region of the AWS settings
	PathStyle bool
	Checksum  Checksum
	// Parallel is the number of parts of one value that are uploaded at once. An interruption loses as many.
	Parallel int
}

// String is the store's URL without its settings.
func (c S3Config) String() string { return "s3://" + c.Bucket + "/" + c.Prefix }

// ParseS3 reads the URL of a store in a bucket. The environment fills in the settings that the URL omits.
func ParseS3(location string, getenv func(string) string) (S3Config, error) {
	u, err := url.Parse(location)
	if err != nil {
		return S3Config{}, fmt.Errorf("store %q is not a URL: %w", location, err)
	}
	c := S3Config{Bucket: u.Host, Checksum: ChecksumWhenRequired, Parallel: 1}
	wrong := func(format string, args ...any) (S3Config, error) {
		return S3Config{}, fmt.Errorf("store s3://%s%s: %s", u.Host, u.Path, fmt.Sprintf(format, args...))
	}
	switch {
	case u.Scheme != "s3":
		return wrong("the scheme is %q", u.Scheme)
	case u.User != nil:
		return wrong("the URL must not contain credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")
	case c.Bucket == "" || strings.Contains(c.Bucket, ":"):
		return wrong("write s3://bucket/prefix; a host goes into ?endpoint=https://host:port")
	case u.Fragment != "":
		return wrong("a fragment has no meaning here")
	}
	if prefix := strings.Trim(u.Path, "/"); prefix != "" {
		if err := checkKey(prefix); err != nil {
			return wrong("the prefix %q is not a clean path", u.Path)
		}
		c.Prefix = prefix + "/"
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return wrong("the query cannot be read: %v", err)
	}
	settings := c.settings()
	for name, values := range query {
		if settings[name] == nil {
			return wrong("setting %q is not known; there are endpoint, region, path-style, checksum and parallel", name)
		}
		if len(values) > 1 {
			return wrong("setting %q is given %d times", name, len(values))
		}
	}
	for _, name := range []string{"endpoint", "region", "path-style", "checksum", "parallel"} {
		variable := "SEALIFT_S3_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		value, from := query.Get(name), "setting "+name
		if !query.Has(name) {
			value, from = getenv(variable), "environment variable "+variable
		}
		if value == "" {
			continue
		}
		if err := settings[name](value); err != nil {
			return wrong("%s: %v", from, err)
		}
	}
	return c, nil
}

// settings returns a setter for each setting. The endpoint is set first, because the default of path-style depends on it.
func (c *S3Config) settings() map[string]func(string) error {
	return map[string]func(string) error{
		"endpoint": func(s string) error {
			u, err := url.Parse(s)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
				return fmt.Errorf("%q is not the URL of a server, such as https://minio.example.com:9000", s)
			}
			c.Endpoint, c.PathStyle = s, true
			return nil
		},
		"region": func(s string) error {
			if strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
				return fmt.Errorf("%q is not the name of a region, such as eu-central-1", s)
			}
			c.Region = s
			return nil
		},
		"path-style": func(s string) (err error) {
			if c.PathStyle, err = strconv.ParseBool(s); err != nil {
				return fmt.Errorf("%q is neither true nor false", s)
			}
			return nil
		},
		"checksum": func(s string) error {
			if c.Checksum = Checksum(s); c.Checksum != ChecksumWhenRequired && c.Checksum != ChecksumWhenSupported {
				return fmt.Errorf("%q is neither %s nor %s", s, ChecksumWhenRequired, ChecksumWhenSupported)
			}
			return nil
		},
		"parallel": func(s string) (err error) {
			if c.Parallel, err = strconv.Atoi(s); err != nil || c.Parallel < 1 || c.Parallel > maxParallel {
				return fmt.Errorf("%q is not a number from 1 to %d", s, maxParallel)
			}
			return nil
		},
	}
}
