package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// bucketTimeout bounds one try; the hook decides about more.
const bucketTimeout = 30 * time.Second

// createBucket creates a missing bucket in the cluster's object store: address, access key, secret key, bucket.
func createBucket(ctx context.Context, args []string, _ io.Writer) error {
	if err := wants(args, 4, "object_store_create_bucket"); err != nil {
		return err
	}
	address, bucket := args[0], args[3]
	if strings.Count(address, ":") > 1 && !strings.HasPrefix(address, "[") {
		address = "[" + address + "]"
	}
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String("http://" + address), Region: "us-east-1", UsePathStyle: true,
		Credentials:                credentials.NewStaticCredentialsProvider(args[1], args[2], ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
	})
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(bucket)})
	var owned *types.BucketAlreadyOwnedByYou
	if err == nil || errors.As(err, &owned) {
		return nil
	}
	if _, ok := errors.AsType[*types.BucketAlreadyExists](err); ok { // messages of some servers about an existing own bucket
		if _, err := client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String(bucket)}); err == nil {
			return nil
		}
	}
	return fmt.Errorf("make bucket %s in the object store at %s: %w", bucket, address, err)
}
