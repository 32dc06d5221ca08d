package store

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"golang.org/x/sync/errgroup"
)

const (
	// minPart is the smallest part that S3 accepts, except for the last one. It is the default size, because an
	// interruption loses one part.
	minPart = 5 << 20
	// maxParts is the maximum number of parts that S3 accepts.
	maxParts = 10_000
)

// partSize returns the part size for a value. It depends only on the value's size, so that a later run can resume the
// upload.
func partSize(size int64) int64 {
	part := int64(minPart)
	for (size+part-1)/part > maxParts {
		part *= 2
	}
	return part
}

// digestMetadata is the metadata key with the sha256 of a value in a bucket: x-amz-meta-sha256.
const digestMetadata = "sha256"

// Put implements Store. Small values take one request; larger ones are uploaded in parts and can be resumed.
func (b *bucket) Put(ctx context.Context, key string, v Value) (version string, err error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	if v.SHA256 == "" || int64(len(v.parts)) != (v.Size+partSize(v.Size)-1)/partSize(v.Size) {
		return "", fmt.Errorf("put %s: the value lacks its digests", key)
	}
	if v.Size > minPart {
		version, err = b.putParts(ctx, key, v)
	} else if version, err = b.putWhole(ctx, &s3.PutObjectInput{}, key, v); err == nil {
		v.meter(v.Size, 0)
	}
	if err != nil {
		return "", b.fail("put", key, err)
	}
	return version, nil
}

// putWhole stores a value with one request.
func (b *bucket) putWhole(ctx context.Context, in *s3.PutObjectInput, key string, v Value) (version string, err error) {
	in.Bucket, in.Key, in.ContentLength = &b.config.Bucket, b.key(key), &v.Size
	in.Metadata, in.ChecksumSHA256 = map[string]string{digestMetadata: v.SHA256}, b.checksum(v.SHA256)
	err = b.send(ctx, v.Content, 0, v.Size, func(ctx context.Context, body io.Reader) error {
		in.Body = body
		out, err := b.client.PutObject(ctx, in, signedWith(v.SHA256))
		if err == nil {
			version = bare(out.ETag)
		}
		return err
	})
	return version, err
}

// send sends a section of a value, with retries.
func (b *bucket) send(ctx context.Context, content io.ReaderAt, off, n int64, request func(context.Context, io.Reader) error) error {
	return b.opener.Retry.do(ctx, func(ctx context.Context) error {
		g := newGuard(ctx, b.opener.Stall)
		defer g.end()
		return g.explain(request(g, &movingSection{io.NewSectionReader(content, off, n), g}))
	})
}

// movingSection is the content of a request. Each read means that the connection makes progress. After the last one, servers check the
// content and store it.
type movingSection struct {
	*io.SectionReader
	guard *guard
}

func (m *movingSection) Read(p []byte) (int, error) {
	m.guard.moved()
	n, err := m.SectionReader.Read(p)
	if at, seekErr := m.Seek(0, io.SeekCurrent); seekErr == nil && at == m.Size() {
		m.guard.sent()
	}
	return n, err
}

// hideEncoding leaves the header Accept-Encoding out of signatures: Google's S3 and some proxies change it on its way. The
// header itself is sent.
func hideEncoding(stack *middleware.Stack) error {
	const header, signing = "Accept-Encoding", "Signing"
	var kept []string
	hide := middleware.FinalizeMiddlewareFunc("SealiftHideEncoding", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
		if r, ok := in.Request.(*smithyhttp.Request); ok {
			kept = r.Header.Values(header)
			r.Header.Del(header)
		}
		return next.HandleFinalize(ctx, in)
	})
	restore := middleware.FinalizeMiddlewareFunc("SealiftRestoreEncoding", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
		if r, ok := in.Request.(*smithyhttp.Request); ok && len(kept) > 0 {
			r.Header[header] = kept
		}
		return next.HandleFinalize(ctx, in)
	})
	if _, ok := stack.Finalize.Get(signing); !ok {
		return nil
	}
	if err := stack.Finalize.Insert(hide, signing, middleware.Before); err != nil {
		return err
	}
	return stack.Finalize.Insert(restore, signing, middleware.After)
}

// signedWith signs the sha256 of the request's content, so that the server refuses other content.
func signedWith(digest string) func(*s3.Options) {
	set := middleware.InitializeMiddlewareFunc("SealiftPayloadHash", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		return next.HandleInitialize(v4.SetPayloadHash(ctx, digest), in)
	})
	return func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Initialize.Add(set, middleware.After)
		})
	}
}

// checksum returns the checksum that the server stores with the content, if the settings ask for it.
func (b *bucket) checksum(digest string) *string {
	raw, err := hex.DecodeString(digest)
	if b.config.Checksum != ChecksumWhenSupported || err != nil {
		return nil
	}
	return aws.String(base64.StdEncoding.EncodeToString(raw))
}

// upload is the multipart upload of one value.
type upload struct {
	*bucket
	key     string
	value   Value
	part    int64 // bytes of each part but the last
	journal *journal
	id      string
	have    map[int32]string // ETags of the parts that the server has, by number from 1
}

// putParts uploads a value in parts. It resumes an interrupted upload of the same value.
func (b *bucket) putParts(ctx context.Context, key string, v Value) (version string, err error) {
	u := &upload{bucket: b, key: key, value: v, part: partSize(v.Size)}
	if u.journal, err = openJournal(b.opener.Uploads, b.config.Endpoint+" "+b.config.String(), key); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, u.journal.close()) }()
	version, err = u.run(ctx)
	if hasCode(err, "NoSuchUpload") { // another process aborted it as stale
		u.journal.forget()
		version, err = u.run(ctx)
	}
	if err != nil && !u.journal.kept() {
		u.abort(ctx, u.id) // no later run could resume it
	}
	return version, err
}

func (u *upload) run(ctx context.Context) (version string, err error) {
	if err := u.resume(ctx); err != nil {
		return "", err
	}
	if err := u.sendParts(ctx); err != nil {
		return "", err
	}
	if version, err = u.complete(ctx); err != nil {
		return "", err
	}
	if err := u.verify(ctx); err != nil {
		return "", err
	}
	return version, u.journal.remove()
}

// resume asks the server for the parts that it has. If there is no upload to resume, it starts one.
func (u *upload) resume(ctx context.Context) error {
	u.id, u.have = "", map[int32]string{}
	head := journalHead{SHA256: u.value.SHA256, Size: u.value.Size, Part: u.part}
	switch old := u.journal.known(); {
	case old.Upload == "":
	case old.sameValue(head):
		have, err := u.listParts(ctx, old.Upload)
		if err == nil {
			u.id, u.have = old.Upload, have
			break
		}
		if !hasCode(err, "NoSuchUpload") && statusOf(err) != http.StatusNotFound {
			return err
		}
	default:
		u.abort(ctx, old.Upload)
	}
	if u.id != "" {
		return nil
	}
	u.abortStale(ctx)
	in := &s3.CreateMultipartUploadInput{
		Bucket: &u.config.Bucket, Key: u.bucket.key(u.key), Metadata: map[string]string{digestMetadata: u.value.SHA256},
	}
	if u.config.Checksum == ChecksumWhenSupported {
		in.ChecksumAlgorithm = types.ChecksumAlgorithmSha256
	}
	err := u.request(ctx, func(ctx context.Context) error {
		out, err := u.client.CreateMultipartUpload(ctx, in)
		if err == nil {
			u.id = aws.ToString(out.UploadId)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("start an upload: %w", err)
	}
	head.Upload = u.id
	return u.journal.start(head)
}

// listParts asks the server which parts it has. It ignores parts with a wrong length or an ETag other than the journal's.
// If the server cannot list parts, the journal is believed.
func (u *upload) listParts(ctx context.Context, id string) (map[int32]string, error) {
	have := make(map[int32]string)
	pages := s3.NewListPartsPaginator(u.client, &s3.ListPartsInput{Bucket: &u.config.Bucket, Key: u.bucket.key(u.key), UploadId: &id})
	for pages.HasMorePages() {
		var page *s3.ListPartsOutput
		err := u.request(ctx, func(ctx context.Context) (err error) {
			page, err = pages.NextPage(ctx)
			return err
		})
		if code := statusOf(err); code == http.StatusForbidden || code == http.StatusNotImplemented {
			return u.journal.parts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("ask for the parts of an upload: %w", err)
		}
		for _, p := range page.Parts {
			n, etag := aws.ToInt32(p.PartNumber), bare(p.ETag)
			known := u.journal.parts[n]
			if aws.ToInt64(p.Size) == u.length(n) && (known == "" || known == etag) {
				have[n] = etag
			}
		}
	}
	return have, nil
}

// length is the size of part n in bytes.
func (u *upload) length(n int32) int64 {
	return min(u.part, u.value.Size-int64(n-1)*u.part)
}

func (u *upload) sendParts(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(u.config.Parallel)
	sent := make([]string, len(u.value.parts))
	for i := range u.value.parts {
		n := int32(i + 1)
		if etag, ok := u.have[n]; ok {
			sent[i] = etag
			u.value.meter(0, u.length(n))
			continue
		}
		group.Go(func() (err error) {
			if err := groupCtx.Err(); err != nil {
				return err
			}
			if sent[i], err = u.sendPart(groupCtx, n); err != nil {
				return fmt.Errorf("part %d of %d: %w", n, len(sent), err)
			}
			u.value.meter(u.length(n), 0)
			return u.journal.done(n, sent[i])
		})
	}
	err := group.Wait()
	for i, etag := range sent {
		u.have[int32(i+1)] = etag
	}
	return err
}

func (u *upload) sendPart(ctx context.Context, n int32) (etag string, err error) {
	digest, length := u.value.parts[n-1], u.length(n)
	in := &s3.UploadPartInput{
		Bucket: &u.config.Bucket, Key: u.bucket.key(u.key), UploadId: &u.id, PartNumber: &n, ContentLength: &length, ChecksumSHA256: u.checksum(digest),
	}
	err = u.send(ctx, u.value.Content, int64(n-1)*u.part, length, func(ctx context.Context, body io.Reader) error {
		in.Body = body
		out, err := u.client.UploadPart(ctx, in, signedWith(digest))
		if err == nil {
			etag = bare(out.ETag)
		}
		return err
	})
	if hasCode(err, "XAmzContentSHA256Mismatch", "BadDigest") {
		err = fmt.Errorf("the content changed during the upload: %w", err)
	}
	return etag, err
}

// complete joins the parts to one value.
func (u *upload) complete(ctx context.Context) (version string, err error) {
	var parts []types.CompletedPart
	for n, etag := range u.have {
		parts = append(parts, types.CompletedPart{PartNumber: &n, ETag: quoted(etag), ChecksumSHA256: u.checksum(u.value.parts[n-1])})
	}
	slices.SortFunc(parts, func(a, b types.CompletedPart) int { return cmp.Compare(*a.PartNumber, *b.PartNumber) })
	err = u.askFor(ctx, retryTimeout*u.opener.Stall, func(ctx context.Context) error {
		out, err := u.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: &u.config.Bucket, Key: u.bucket.key(u.key), UploadId: &u.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
		})
		if err == nil {
			version = bare(out.ETag)
		}
		return err
	})
	if !hasCode(err, "NoSuchUpload") {
		return version, err
	}
	// The server may have completed the upload while its response was lost.
	if head, headErr := u.head(ctx, u.key); headErr == nil && u.matches(head) {
		return bare(head.ETag), nil
	}
	return "", err
}

// matches reports whether the server has the value. The server verified the sha256 of each part on arrival.
func (u *upload) matches(head *s3.HeadObjectOutput) bool {
	return aws.ToInt64(head.ContentLength) == u.value.Size && head.Metadata[digestMetadata] == u.value.SHA256
}

func (u *upload) verify(ctx context.Context) error {
	head, err := u.head(ctx, u.key)
	if err != nil {
		return fmt.Errorf("verify the upload: %w", err)
	}
	if !u.matches(head) {
		return fmt.Errorf("after the upload of %d bytes with sha256 %s the server has %d bytes with sha256 %q: %w; publish again",
			u.value.Size, u.value.SHA256, aws.ToInt64(head.ContentLength), head.Metadata[digestMetadata], ErrChanged)
	}
	return nil
}

// abortTime is the timeout for aborting an upload.
const abortTime = 10 * time.Second

// abort aborts an upload. If that fails, the parts only cost space until abortStale removes them.
func (u *upload) abort(ctx context.Context, id string) {
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	_, err := u.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &u.config.Bucket, Key: u.bucket.key(u.key), UploadId: &id})
	if err != nil {
		u.opener.Log.Warn("an unfinished upload is left on the server", "store", u.config.String(), "key", u.key, "upload", id, "error", err)
	}
}

// abortStale aborts the uploads of this key that are too old to be resumed.
func (u *upload) abortStale(ctx context.Context) {
	pages := s3.NewListMultipartUploadsPaginator(u.client, &s3.ListMultipartUploadsInput{Bucket: &u.config.Bucket, Prefix: u.bucket.key(u.key)})
	for pages.HasMorePages() {
		var page *s3.ListMultipartUploadsOutput
		err := u.request(ctx, func(ctx context.Context) (err error) {
			page, err = pages.NextPage(ctx)
			return err
		})
		if err != nil {
			u.opener.Log.Info("the server does not list unfinished uploads", "store", u.config.String(), "error", err)
			return
		}
		for _, old := range page.Uploads {
			if aws.ToString(old.Key) == *u.bucket.key(u.key) && old.Initiated != nil && time.Since(*old.Initiated) > u.opener.StaleAfter {
				u.abort(ctx, aws.ToString(old.UploadId))
			}
		}
	}
}
