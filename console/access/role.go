// Package access decides who may use the console of a node: login tokens, sessions, and the table of what each role may do.
//
// It keeps no secret: files have the SHA-256 of tokens and sessions, which are random texts of 128 bits. It knows neither pages nor HTTP.
package access

import (
	"fmt"
	"slices"
)

// Role is the role for which a login token was made.
type Role string

// The roles. Each has what the one before it has.
const (
	Viewer        Role = "viewer"
	Operator      Role = "operator"
	Administrator Role = "administrator"
)

// Roles lists all of them.
func Roles() []Role { return []Role{Viewer, Operator, Administrator} }

// ParseRole reads a role as a command line has it.
func ParseRole(text string) (Role, error) {
	if role := Role(text); slices.Contains(Roles(), role) {
		return role, nil
	}
	return "", fmt.Errorf("%q is not a role; write viewer, operator or administrator", text)
}

// Right is something that a person may request from the console.
type Right string

// The rights. Everything that the console serves needs one of them, except the login page and the files of its design.
const (
	ReadState     Right = "pages: the state of the node and its cluster"
	ReadFleet     Right = "pages: the clusters and rollouts of a fleet"
	ReadJobs      Right = "pages: actions and their output"
	SaveSnapshot  Right = "action: save a snapshot"
	CheckSnapshot Right = "action: verify a snapshot"
	DrillSnapshot Right = "action: try a restore"
	PlanUpgrade   Right = "action: plan an upgrade"
	PauseUpgrade  Right = "action: pause an upgrade"
	ResumeUpgrade Right = "action: resume an upgrade"
	StartUpgrade  Right = "action: start an upgrade"
	PlanUndo      Right = "action: plan the undo of an upgrade"
	UndoUpgrade   Right = "action: undo an upgrade"
	InviteWorker  Right = "make a command with which a worker joins"
	UploadBundle  Right = "upload a bundle"
	DeleteBundle  Right = "delete an uploaded bundle"
	ReadAudit     Right = "pages: audit and sessions"
	EndSession    Right = "action: end the session of another person"
)

// rights is the table.
var rights = map[Right][]Role{
	ReadState:     Roles(),
	ReadFleet:     Roles(),
	ReadJobs:      {Operator, Administrator},
	SaveSnapshot:  {Operator, Administrator},
	CheckSnapshot: {Operator, Administrator},
	DrillSnapshot: {Operator, Administrator},
	PlanUpgrade:   {Operator, Administrator},
	PauseUpgrade:  {Operator, Administrator},
	ResumeUpgrade: {Administrator},
	StartUpgrade:  {Administrator},
	PlanUndo:      {Administrator},
	UndoUpgrade:   {Administrator},
	InviteWorker:  {Administrator},
	UploadBundle:  {Operator, Administrator},
	DeleteBundle:  {Administrator},
	ReadAudit:     {Administrator},
	EndSession:    {Administrator},
}

// Rights lists all rights, in the order of this file.
func Rights() []Right {
	return []Right{ReadState, ReadFleet, ReadJobs, SaveSnapshot, CheckSnapshot, DrillSnapshot, PlanUpgrade, PauseUpgrade, ResumeUpgrade, StartUpgrade, PlanUndo, UndoUpgrade, InviteWorker, UploadBundle,
		DeleteBundle, ReadAudit, EndSession}
}

// Has reports whether a role has a right.
func (r Role) Has(right Right) bool { return slices.Contains(rights[right], r) }
