package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/logging"
)

// retryTimeout multiplies the timeout for the answer to an upload, because the server checks it or joins its parts then.
const retryTimeout = 5

// bucket is a store in a bucket of an S3 server.
type bucket struct {
	config S3Config
	client *s3.Client
	opener Opener
}

func (o Opener) openS3(location string) (Store, error) {
	c, err := ParseS3(location, o.Getenv)
	if err != nil {
		return nil, err
	}
	// This reads the environment and files and sends no request. The chain finds credentials when they are needed.
	logger := logging.LoggerFunc(func(_ logging.Classification, format string, args ...any) { o.Log.Debug(fmt.Sprintf(format, args...)) })
	sdk, err := config.LoadDefaultConfig(context.Background(), config.WithLogger(logger))
	if err != nil {
		return nil, fmt.Errorf("store %s: load the AWS settings: %w", c, err)
	}
	client := s3.NewFromConfig(sdk, func(s *s3.Options) {
		s.HTTPClient = &http.Client{Transport: newTransport(o.CAs, retryTimeout*o.Stall)}
		s.Retryer = aws.NopRetryer{} // Retry retries
		s.APIOptions = append(s.APIOptions, hideEncoding)
		s.UsePathStyle = c.PathStyle
		s.DisableLogOutputChecksumValidationSkipped = true
		if key := o.AccessKey; key.ID != "" {
			s.Credentials = aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: key.ID, SecretAccessKey: key.Secret}, nil
			}))
		}
		if c.Endpoint != "" {
			s.BaseEndpoint = &c.Endpoint
		}
		if c.Region != "" {
			s.Region = c.Region
		}
		if s.Region == "" {
			s.Region = defaultRegion
		}
		s.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		s.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		if c.Checksum == ChecksumWhenSupported {
			s.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenSupported
		}
	})
	return &bucket{config: c, client: client, opener: o}, nil
}

func (b *bucket) key(key string) *string { return aws.String(b.config.Prefix + key) }

// fail names the operation and the key, and adds a hint for the server errors that have a known cause.
func (b *bucket) fail(what, key string, err error) error {
	hint := ""
	switch {
	case isMissing(err):
		err = errors.Join(err, fs.ErrNotExist)
	case statusOf(err) == http.StatusForbidden:
		hint = "; check the credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID) and the policy of the bucket"
	case statusOf(err) == http.StatusMovedPermanently:
		hint = "; the bucket is in another region: add ?region=… to the URL"
	}
	return fmt.Errorf("store %s: %s %s: %w%s", b.config, what, key, err, hint)
}

// isMissing reports whether the value does not exist. A missing bucket is another error.
func isMissing(err error) bool {
	return statusOf(err) == http.StatusNotFound && !hasCode(err, "NoSuchBucket", "NoSuchUpload")
}

// hasCode reports whether the server's error has one of these codes.
func hasCode(err error, codes ...string) bool {
	var api interface{ ErrorCode() string }
	return errors.As(err, &api) && slices.Contains(codes, api.ErrorCode())
}

// Get implements Store.
func (b *bucket) Get(ctx context.Context, key string) (Object, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	head, err := b.head(ctx, key)
	if err != nil {
		return nil, b.fail("get", key, err)
	}
	if head.ContentLength == nil || head.ETag == nil {
		return nil, fmt.Errorf("store %s: the server sends no length or no ETag for %s", b.config, key)
	}
	return &remote{
		ctx: ctx, name: "store " + b.config.String() + ": " + key, src: &blob{bucket: b, key: key, version: bare(head.ETag), size: *head.ContentLength},
		size: *head.ContentLength, version: bare(head.ETag), digest: head.Metadata[digestMetadata],
		opener: b.opener,
	}, nil
}

// request sends a request without content and with a short response.
func (b *bucket) request(ctx context.Context, request func(context.Context) error) error {
	return b.askFor(ctx, b.opener.Stall, request)
}

func (b *bucket) askFor(ctx context.Context, most time.Duration, request func(context.Context) error) error {
	return b.opener.Retry.do(ctx, func(ctx context.Context) error {
		g := newGuard(ctx, most)
		defer g.end()
		return g.explain(request(g))
	})
}

func (b *bucket) head(ctx context.Context, key string) (out *s3.HeadObjectOutput, err error) {
	err = b.request(ctx, func(ctx context.Context) (err error) {
		out, err = b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.config.Bucket, Key: b.key(key)})
		return err
	})
	return out, err
}

// bare removes the quotes of an ETag, which only some responses have. quoted adds them, as conditions need them.
func bare(etag *string) string { return strings.Trim(aws.ToString(etag), `"`) }

func quoted(version string) *string { return aws.String(`"` + version + `"`) }

// blob is one value in a bucket, in one version.
type blob struct {
	bucket       *bucket
	key, version string
	size         int64
}

// open implements ranges.
func (o *blob) open(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	out, err := o.bucket.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &o.bucket.config.Bucket, Key: o.bucket.key(o.key), IfMatch: quoted(o.version),
		Range: aws.String(fmt.Sprintf("bytes=%d-%d", off, off+n-1)),
	})
	switch code := statusOf(err); {
	case code == http.StatusPreconditionFailed, code == http.StatusRequestedRangeNotSatisfiable, isMissing(err):
		return nil, fmt.Errorf("%w: %w; start again", ErrChanged, err)
	case err != nil:
		return nil, err
	}
	// Some servers ignore conditions.
	if version := bare(out.ETag); version != o.version {
		err = fmt.Errorf("%w: its ETag changed from %s to %s; start again", ErrChanged, o.version, version)
	} else {
		err = checkRange(aws.ToString(out.ContentRange), off, n, o.size)
	}
	if err != nil {
		return nil, errors.Join(err, out.Body.Close())
	}
	return out.Body, nil
}

// List implements Store.
func (b *bucket) List(ctx context.Context, prefix string) ([]Info, error) {
	var infos []Info
	err := b.list(ctx, prefix, func(o types.Object) error {
		infos = append(infos, Info{
			Key: strings.TrimPrefix(aws.ToString(o.Key), b.config.Prefix), Size: aws.ToInt64(o.Size), Version: bare(o.ETag),
		})
		return nil
	})
	slices.SortFunc(infos, byKey)
	return infos, err
}

// list calls each for every object below a prefix, page by page. It stops at the first error.
func (b *bucket) list(ctx context.Context, prefix string, each func(types.Object) error) error {
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.config.Bucket, Prefix: b.key(prefix)})
	for pages.HasMorePages() {
		var page *s3.ListObjectsV2Output
		err := b.request(ctx, func(ctx context.Context) (err error) {
			page, err = pages.NextPage(ctx)
			return err
		})
		if err != nil {
			return b.fail("list", prefix, err)
		}
		for _, o := range page.Contents {
			if err := each(o); err != nil {
				return err
			}
		}
	}
	return nil
}

// Swap implements Store. On a server without conditional writes, it writes unconditionally.
func (b *bucket) Swap(ctx context.Context, key string, data []byte, old string) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	in := &s3.PutObjectInput{}
	if old == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = quoted(old)
	}
	version, err := b.putWhole(ctx, in, key, Bytes(data))
	if statusOf(err) == http.StatusNotImplemented {
		version, err = b.putWhole(ctx, &s3.PutObjectInput{}, key, Bytes(data))
	}
	switch {
	case err == nil:
		return version, nil
	case statusOf(err) == http.StatusPreconditionFailed, statusOf(err) == http.StatusConflict, isMissing(err):
		return "", fmt.Errorf("%w: %w", ErrChanged, b.fail("replace", key, err))
	}
	return "", b.fail("replace", key, err)
}

// Presigner is a store that can serve its values itself, to any holder of a presigned URL.
type Presigner interface {
	// Presign returns a URL for reading a value, valid for the given time. It does not check that the value exists.
	Presign(ctx context.Context, key string, valid time.Duration) (string, error)
}

// Presign implements Presigner. The URL has the endpoint that the store was opened with.
func (b *bucket) Presign(ctx context.Context, key string, valid time.Duration) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	request, err := s3.NewPresignClient(b.client).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &b.config.Bucket, Key: b.key(key)}, s3.WithPresignExpires(valid))
	if err != nil {
		return "", fmt.Errorf("store %s: sign a URL for %s: %w", b.config, key, err)
	}
	return request.URL, nil
}

// Region asks AWS for the region of a bucket. Credentials without the permission GetBucketLocation still find it in the
// headers of another response.
func (o Opener) Region(ctx context.Context, name string) (string, error) {
	found, err := o.Open("s3://" + name)
	if err != nil {
		return "", err
	}
	b := found.(*bucket) // an s3:// URL always opens a bucket
	var region string
	located := b.request(ctx, func(ctx context.Context) error {
		answer, err := b.client.GetBucketLocation(ctx, &s3.GetBucketLocationInput{Bucket: &name})
		if err == nil {
			region = string(answer.LocationConstraint)
		}
		return err
	})
	if located == nil {
		switch region {
		case "": // AWS returns no name for us-east-1, and an old one for eu-west-1
			return defaultRegion, nil
		case "EU":
			return "eu-west-1", nil
		}
		return region, nil
	}
	err = b.request(ctx, func(ctx context.Context) error {
		answer, err := b.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &name})
		if err == nil {
			region = aws.ToString(answer.BucketRegion)
		}
		return err
	})
	if err != nil || region == "" {
		return "", fmt.Errorf("find the region of bucket %s: %w; name it with ?region=…", name, located)
	}
	return region, nil
}
