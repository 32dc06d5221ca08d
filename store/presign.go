package store

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Presigner is a store that can serve its values itself, to anybody who has a presigned URL.
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
