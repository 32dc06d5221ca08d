package hook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/distribution/reference"
)

// verbs are the requests that hooks can make of their runner.
func verbs() map[string]Verb {
	return map[string]Verb{
		"template-names":           templateNames,
		"template-render":          templateRender,
		"kustomization-insert":     kustomizationInsert,
		"kustomization-json-patch": kustomizationJSONPatch,
		"kustomization-fix":        kustomizationFix,
		"document":                 document,
		"image-name":               imageName,
		"compare-versions":         compareVersions,
		"certificate-has-name":     certificateHasName,
		"create-bucket":            createBucket,
	}
}

// wants checks the number of a verb's arguments.
func wants(args []string, count int, what string) error {
	if len(args) < count {
		return fmt.Errorf("%s: %d arguments given, %d wanted", what, len(args), count)
	}
	return nil
}

// maxTextFile bounds the files that hooks have edited or rendered.
const maxTextFile = 16 << 20

func readText(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTextFile+1))
	if err == nil && len(data) > maxTextFile {
		err = fmt.Errorf("%s: has more than %d MiB", name, maxTextFile>>20)
	}
	return string(data), err
}

// imageName writes an image reference in full: docker.io/library/nginx:latest for nginx.
func imageName(_ context.Context, args []string, out io.Writer) error {
	if err := wants(args, 1, "canonical_image_name"); err != nil {
		return err
	}
	named, err := reference.ParseNormalizedNamed(args[0])
	if err != nil {
		return fmt.Errorf("image %q: %w", args[0], err)
	}
	_, err = fmt.Fprintln(out, reference.TagNameOnly(named))
	return err
}

// maxVersionParts is more than any version has.
const maxVersionParts = 8

// compareVersions compares the first numbers of two versions: how many, A, B. It prints -1, 0 or 1.
func compareVersions(_ context.Context, args []string, out io.Writer) error {
	if err := wants(args, 3, "compare versions"); err != nil {
		return err
	}
	parts, err := strconv.Atoi(args[0])
	if err != nil || parts < 1 || parts > maxVersionParts {
		return fmt.Errorf("%q is not a number of version parts", args[0])
	}
	a, errA := versionNumbers(args[1], parts)
	b, errB := versionNumbers(args[2], parts)
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	for i := range parts {
		if a[i] != b[i] {
			order := 1
			if a[i] < b[i] {
				order = -1
			}
			_, err := fmt.Fprintln(out, order)
			return err
		}
	}
	_, err = fmt.Fprintln(out, 0)
	return err
}

// versionNumbers are the first numbers of a version such as v1.10.8-rc1; absent ones are zero.
func versionNumbers(version string, parts int) ([]int, error) {
	text, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	text, _, _ = strings.Cut(text, "+")
	numbers := make([]int, parts)
	for i, word := range strings.SplitN(text, ".", parts+1) {
		if i == parts {
			break
		}
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("%q is not a version such as 1.10.8", version)
		}
		numbers[i] = n
	}
	return numbers, nil
}

// dialTimeout bounds the check of a server's certificate.
const dialTimeout = 10 * time.Second

// certificateHasName checks the certificate of a server, which need not be trusted: only its names count.
func certificateHasName(ctx context.Context, args []string, _ io.Writer) error {
	if err := wants(args, 2, "cert_has_san"); err != nil {
		return err
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // nothing is sent
	conn, err := dialer.DialContext(ctx, "tcp", args[0])
	if err != nil {
		return errNo // while nobody listens, there is no such certificate
	}
	defer conn.Close()
	secure, ok := conn.(*tls.Conn)
	if !ok || len(secure.ConnectionState().PeerCertificates) == 0 {
		return errNo
	}
	if secure.ConnectionState().PeerCertificates[0].VerifyHostname(args[1]) != nil {
		return errNo
	}
	return nil
}
