package store

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Region asks AWS for the region of a bucket. Credentials without the permission GetBucketLocation still find it in the
// headers of another response.
func (o Opener) Region(ctx context.Context, name string) (string, error) {
	found, err := o.Open("s3://" + name)
	if err != nil {
		return "", err
	}
	b := found.(*bucket) // an s3:// URL always opens a bucket
	var region string
	located := b.ask(ctx, func(ctx context.Context) error {
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
	err = b.ask(ctx, func(ctx context.Context) error {
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
