package store

import (
	"strings"
	"testing"
)

func none(string) string { return "" }

func TestParseS3(t *testing.T) {
	tests := map[string]struct {
		location string
		env      map[string]string
		want     S3Config
		wrong    string
	}{
		"a bucket":  {location: "s3://b", want: S3Config{Bucket: "b", Checksum: ChecksumWhenRequired, Parallel: 1}},
		"a prefix":  {location: "s3://b/dist/v1/", want: S3Config{Bucket: "b", Prefix: "dist/v1/", Checksum: ChecksumWhenRequired, Parallel: 1}},
		"a server":  {location: "s3://b?endpoint=https://h:9000", want: S3Config{Bucket: "b", Endpoint: "https://h:9000", PathStyle: true, Checksum: ChecksumWhenRequired, Parallel: 1}},
		"a setting": {location: "s3://b?endpoint=https://h&path-style=false&region=r&checksum=when_supported&parallel=4", want: S3Config{Bucket: "b", Endpoint: "https://h", Region: "r", Checksum: ChecksumWhenSupported, Parallel: 4}},
		"the environment where the URL is silent": {
			location: "s3://b?region=r", env: map[string]string{"SEALIFT_S3_REGION": "other", "SEALIFT_S3_ENDPOINT": "http://h", "SEALIFT_S3_PATH_STYLE": "false"},
			want: S3Config{Bucket: "b", Region: "r", Endpoint: "http://h", Checksum: ChecksumWhenRequired, Parallel: 1},
		},
		"no bucket":            {location: "s3:///x", wrong: "write s3://bucket/prefix"},
		"a host as bucket":     {location: "s3://h:9000/b", wrong: "?endpoint="},
		"credentials":          {location: "s3://id:secret@b", wrong: "AWS_ACCESS_KEY_ID"},
		"an unknown setting":   {location: "s3://b?regoin=x", wrong: `setting "regoin" is not known`},
		"a setting twice":      {location: "s3://b?region=x&region=y", wrong: "is given 2 times"},
		"a way out":            {location: "s3://b/../x", wrong: "not a clean path"},
		"a wrong endpoint":     {location: "s3://b?endpoint=h:9000", wrong: "not the URL of a server"},
		"a wrong region":       {location: "s3://b?region=a/b", wrong: "not the name of a region"},
		"a wrong number":       {location: "s3://b?parallel=0", wrong: "from 1 to 16"},
		"a wrong checksum":     {location: "s3://b?checksum=md5", wrong: "when_required"},
		"a wrong environment":  {location: "s3://b", env: map[string]string{"SEALIFT_S3_PATH_STYLE": "maybe"}, wrong: "environment variable SEALIFT_S3_PATH_STYLE"},
		"something after a #":  {location: "s3://b#x", wrong: "fragment"},
		"another scheme":       {location: "s4://b", wrong: "scheme"},
		"a query with garbage": {location: "s3://b?%zz", wrong: "cannot be read"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseS3(tt.location, func(name string) string { return tt.env[name] })
			switch {
			case tt.wrong == "" && (err != nil || got != tt.want):
				t.Errorf("got %+v, %v", got, err)
			case tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)):
				t.Errorf("got %v, want %q", err, tt.wrong)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("the error tells the secret: %v", err)
			}
		})
	}
}

func FuzzParseS3(f *testing.F) {
	for _, seed := range []string{"s3://b/p?endpoint=https://h:9000&region=r", "s3://b?parallel=4&checksum=when_supported&path-style=true", "s3:///", "s3://u:p@b", "s3://b/..//?%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, location string) {
		c, err := ParseS3(location, none)
		if err != nil {
			return
		}
		if c.Bucket == "" || c.Parallel < 1 || c.Prefix != "" && (checkKey(strings.TrimSuffix(c.Prefix, "/")) != nil || !strings.HasSuffix(c.Prefix, "/")) {
			t.Errorf("%q gives %+v", location, c)
		}
	})
}

func FuzzParseJournal(f *testing.F) {
	f.Add([]byte(`{"upload":"u","sha256":"s","size":12,"part":5}` + "\n" + `{"number":1,"etag":"e"}` + "\n" + `{"number":2,"et`))
	f.Add([]byte(`{"upload":"u","sha256":"s","size":12,"part":5}`))
	f.Add([]byte("\n\n"))
	f.Add([]byte(`{"upload":"u","size":1,"part":1}` + "\n" + `{"number":-1,"etag":"e"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		head, parts, whole := parseJournal(data)
		if whole < 0 || whole > int64(len(data)) || whole > 0 && data[whole-1] != '\n' {
			t.Fatalf("%d of %d bytes are whole lines", whole, len(data))
		}
		if head.Upload == "" && (whole != 0 || len(parts) != 0) {
			t.Error("parts of no upload")
		}
		for n, etag := range parts {
			if n < 1 || n > maxParts || etag == "" {
				t.Errorf("part %d is %q", n, etag)
			}
		}
		again, partsAgain, wholeAgain := parseJournal(data[:whole]) // the rest after the torn line was removed
		if again != head || len(partsAgain) != len(parts) || wholeAgain != whole {
			t.Errorf("the whole lines alone give %+v and %d parts", again, len(partsAgain))
		}
	})
}

func TestCheckRange(t *testing.T) {
	for got, wrong := range map[string]string{
		"bytes 5-9/20": "", "bytes 5-9/21": "from 20 to 21 bytes", "bytes 5-7/8": "from 20 to 8 bytes", "bytes 5-9/*": "asked for", "bytes 5-8/20": "asked for", "": "asked for", "bytes 0-4/20": "asked for",
	} {
		err := checkRange(got, 5, 5, 20)
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: %v", got, err)
		}
	}
}

func TestUploadHasAtMostTenThousandParts(t *testing.T) {
	for size, want := range map[int64]int64{1: minPart, minPart * maxParts: minPart, minPart*maxParts + 1: 2 * minPart, 5 << 40: 1024 << 20 * 5 / 8} {
		if got := partSize(size); got != want || (size+got-1)/got > maxParts {
			t.Errorf("parts of %d bytes have %d, want %d", size, got, want)
		}
	}
}
