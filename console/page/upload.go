package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/audit"
	"github.com/sealift/sealift/console/command"
	"github.com/sealift/sealift/console/upload"
	"github.com/sealift/sealift/internal/connlimit"
)

// readPause is how long a client may take to send the next bytes of a chunk, and chunkTime how long all of it may take.
const readPause, chunkTime = 30 * time.Second, 10 * time.Minute

// openSpool opens the uploads, whose bundles 'sealift verify' judges.
func (s *Site) openSpool(ctx context.Context) (err error) {
	o := s.Uploads
	o.Check = func(ctx context.Context, file string) (upload.Verdict, error) {
		return s.reader.Verify(ctx, file, s.Settings.BundleKeys)
	}
	o.Ended, o.Now, o.Log = s.uploadEnded, s.Now, s.Log
	s.Settings.Uploads = o.Bundles
	s.spool, err = upload.Open(ctx, o)
	return err
}

// uploadEnded records whether a bundle became usable.
func (s *Site) uploadEnded(u upload.Upload) {
	e := audit.Entry{Time: u.Changed, Who: u.Who, What: "upload", Result: string(u.State), Detail: u.Name}
	if u.State == upload.Refused {
		e.Detail += ": " + u.Reason
	}
	if err := s.Audit.Write(e); err != nil {
		s.Log.Error("the audit lacks a line", "what", e.What, "result", e.Result, "who", e.Who, "error", err)
	}
}

// createUpload begins an upload, or returns the one that the person has begun. The headers Upload-Name and Upload-Length describe the file,
// Upload-SHA256 its digest.
func (s *Site) createUpload(w http.ResponseWriter, r *http.Request, v visitor) error {
	if len(s.Settings.BundleKeys) == 0 {
		return s.failUpload(w, command.ErrNoKey)
	}
	length, err := strconv.ParseInt(r.Header.Get("Upload-Length"), 10, 64)
	if err != nil {
		length = 0 // which is not valid
	}
	u, resumes, err := s.spool.Create(upload.Request{Name: r.Header.Get("Upload-Name"), Length: length, SHA256: r.Header.Get("Upload-SHA256"), Who: v.session.Who()})
	if err != nil {
		s.note(s.Refused, r, v, "upload", "not started", err.Error())
		return s.failUpload(w, err)
	}
	result := "started"
	if resumes {
		result = "resumed"
	}
	if err := s.Audit.Write(s.entry(r, v, "upload", result, fmt.Sprintf("%s, %d bytes", u.Name, u.Length))); err != nil {
		if !resumes {
			err = errors.Join(err, s.spool.Cancel(u.ID))
		}
		return s.failUpload(w, fmt.Errorf("the upload was not started: %w; free space on the node", err))
	}
	w.Header().Set("Location", "/uploads/"+u.ID)
	status := http.StatusCreated
	if resumes {
		status = http.StatusOK
	}
	return s.sendUpload(w, u, status)
}

// ownUpload returns an upload of the person who asks.
func (s *Site) ownUpload(r *http.Request, v visitor) (upload.Upload, error) {
	u, err := s.spool.Find(r.PathValue("id"))
	if err == nil && u.Who != v.session.Who() {
		return u, upload.ErrNone
	}
	return u, err
}

func (s *Site) showUpload(w http.ResponseWriter, r *http.Request, v visitor) error {
	u, err := s.ownUpload(r, v)
	if err != nil {
		return s.failUpload(w, err)
	}
	return s.sendUpload(w, u, http.StatusOK)
}

// receiveChunk appends a chunk. The header Upload-Offset says where it begins, Upload-SHA256 is its digest.
func (s *Site) receiveChunk(w http.ResponseWriter, r *http.Request, v visitor) error {
	u, err := s.ownUpload(r, v)
	if err != nil {
		return s.failUpload(w, err)
	}
	offset, err := strconv.ParseInt(r.Header.Get("Upload-Offset"), 10, 64)
	if err != nil {
		return s.failUpload(w, fmt.Errorf("%w: the header Upload-Offset must be a number", upload.ErrInvalid))
	}
	deadlines := connlimit.NewDeadlines(w, r)
	defer deadlines.Stop()
	body := &patientReader{from: r.Body, end: time.Now().Add(chunkTime), extend: deadlines.SetReadDeadline}
	u, err = s.spool.Append(u.ID, offset, r.ContentLength, r.Header.Get("Upload-SHA256"), body)
	if err != nil {
		return s.failUpload(w, err)
	}
	return s.sendUpload(w, u, http.StatusOK)
}

// patientReader lets a client go on that is slow but steady.
type patientReader struct {
	from   io.Reader
	end    time.Time
	extend func(time.Time) error
}

func (p *patientReader) Read(b []byte) (int, error) {
	until := time.Now().Add(readPause)
	if until.After(p.end) {
		until = p.end
	}
	if err := p.extend(until); err != nil {
		return 0, err
	}
	return p.from.Read(b)
}

func (s *Site) sendUpload(w http.ResponseWriter, u upload.Upload, status int) error {
	tail, err := s.spool.Tail(u)
	if err != nil {
		return err
	}
	u.Reason = string(clean(u.Reason))
	text, err := json.Marshal(upload.Document{Upload: u, Tail: tail, Chunk: upload.ChunkSize})
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Upload-Offset", strconv.FormatInt(u.Offset, 10))
	h.Set("Upload-Length", strconv.FormatInt(u.Length, 10))
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may be gone
	return nil
}

// failUpload answers a script in a line of text.
func (s *Site) failUpload(w http.ResponseWriter, err error) error {
	status := http.StatusInternalServerError
	for _, one := range []struct {
		err    error
		status int
	}{
		{upload.ErrInvalid, http.StatusBadRequest}, {upload.ErrNone, http.StatusNotFound}, {upload.ErrBusy, http.StatusTooManyRequests}, {upload.ErrExists, http.StatusConflict},
		{command.ErrNoKey, http.StatusForbidden}, {upload.ErrInUse, http.StatusLocked}, {upload.ErrOffset, http.StatusConflict}, {upload.ErrCorrupt, http.StatusUnprocessableEntity},
		{upload.ErrSpace, http.StatusInsufficientStorage},
	} {
		if errors.Is(err, one.err) {
			status = one.status
			break
		}
	}
	if status == http.StatusInternalServerError {
		s.Log.Error("an upload failed", "error", err)
	}
	http.Error(w, string(clean(err.Error())), status)
	return nil
}

// cancelUpload removes an upload: one's own, or as an administrator every one.
func (s *Site) cancelUpload(w http.ResponseWriter, r *http.Request, v visitor) error {
	u, err := s.spool.Find(r.PathValue("id"))
	if errors.Is(err, upload.ErrNone) || err == nil && u.Who != v.session.Who() && !v.session.Role.Has(access.DeleteBundle) {
		return errNotFound
	}
	if err == nil {
		err = s.spool.Cancel(u.ID)
	}
	if err != nil {
		return s.fail(w, r, v, http.StatusConflict, "Not cancelled", err.Error())
	}
	s.note(s.Audit, r, v, "upload", "cancelled", u.Name)
	http.Redirect(w, r, "/bundles", http.StatusSeeOther)
	return nil
}
