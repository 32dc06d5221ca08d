package store

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Region asks AWS where a bucket is, for whoever was told its name alone. Who may not ask for its location may still see it
// in the headers of another answer.
func (o Opener) Region(ctx context.Context, name string) (string, error) {
	found, err := o.Open("s3://" + name)
	if err != nil {
		return "", err
	}
	b := found.(*bucket) // s3:// gives no other
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
		case "": // the oldest region has no name there, and the second has an old one
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
