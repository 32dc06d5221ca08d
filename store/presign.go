package store

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Presigner is a store that can give out its values itself, to whoever has a URL for that.
type Presigner interface {
	// Presign gives a URL by which the value of a key may be read for some time. Whether there is one is not asked.
	Presign(ctx context.Context, key string, valid time.Duration) (string, error)
}

// Presign implements Presigner. The URL names the endpoint of the store as it was given.
func (b *bucket) Presign(ctx context.Context, key string, valid time.Duration) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	request, err := s3.NewPresignClient(b.client).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &b.config.Bucket, Key: b.key(key)}, s3.WithPresignExpires(valid))
	if err != nil {
		return "", fmt.Errorf("store %s: make a URL for %s: %w", b.config, key, err)
	}
	return request.URL, nil
}
