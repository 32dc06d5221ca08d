package addon

import (
	"context"
	"fmt"
)

// Mover moves the objects of one ApplySet into another, each in one write that neither deletes nor recreates it. Objects that
// have already moved are left alone, so that a move can be repeated.
type Mover func(ctx context.Context, from, to string) error

// Adopt hands an add-on over from one owner to another, with its objects. Repeat the call to finish one that was
// interrupted. It fails with an *OwnedError when neither of them owns the add-on.
func (r Records) Adopt(ctx context.Context, name string, from Owner, to Ownership, move Mover) (Record, error) {
	return r.handOver(ctx, name, from, move, func(record Record) (Ownership, *Owner, error) { return to, nil, nil })
}

// GiveBack hands an add-on over to its former owner, with its objects. The owner that returns it does not adopt it again unless
// requested. Repeat the call to finish one that was interrupted.
func (r Records) GiveBack(ctx context.Context, name string, owner Owner, move Mover) (Record, error) {
	return r.handOver(ctx, name, owner, move, func(record Record) (Ownership, *Owner, error) {
		former, ok := record.Former()
		if !ok {
			return Ownership{}, nil, fmt.Errorf("add-on %q has no earlier owner than %s to return it to", name, owner)
		}
		return former.Ownership, &owner, nil
	})
}

// handOver records the new owner, moves the objects, and records that they have moved.
func (r Records) handOver(ctx context.Context, name string, from Owner, move Mover, next func(Record) (Ownership, *Owner, error)) (Record, error) {
	record, found, err := r.Get(ctx, name)
	if err != nil {
		return record, err
	}
	if !found {
		return record, fmt.Errorf("add-on %q has no owner on record", name)
	}
	// Objects that an earlier handover left behind have to follow before they can move on.
	if record, err = r.Finish(ctx, record, move); err != nil {
		return record, err
	}
	record, err = r.change(ctx, name, func(record *Record) error {
		if record.Released != nil && *record.Released == from && record.Owner != from {
			return nil // given back already
		}
		to, released, err := next(*record)
		switch {
		case err != nil:
			return err
		case record.Owner == to.Owner:
			return nil
		case record.Owner != from:
			return &OwnedError{*record}
		case record.Moving != "":
			return fmt.Errorf("another handover of add-on %q has begun; run the command again", name)
		}
		record.setOwner(to, r.now())
		record.Released = released
		return nil
	})
	if err != nil {
		return record, err
	}
	return r.Finish(ctx, record, move)
}

// Finish moves the objects that a handover has left behind when it was interrupted. Its owner calls it before it applies
// the add-on.
func (r Records) Finish(ctx context.Context, record Record, move Mover) (Record, error) {
	if record.Moving == "" {
		return record, nil
	}
	from, to := record.Moving, record.Set
	if err := move(ctx, from, to); err != nil {
		return record, fmt.Errorf("move the objects of add-on %q from set %s to set %s: %w", record.Name, from, to, err)
	}
	return r.change(ctx, record.Name, func(record *Record) error {
		if record.Moving == from && record.Set == to {
			record.Moving = ""
		}
		return nil
	})
}
