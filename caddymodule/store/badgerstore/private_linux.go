package badgerstore

import (
	"encoding/binary"
	"math"

	"golang.org/x/sys/unix"
)

// Parts of an ACL as Linux keeps it in an extended attribute
// (linux/posix_acl_xattr.h): a version, then entries of a tag, a permission
// and an id.
const (
	aclVersion = 2
	aclOwner   = 0x01
	aclGroup   = 0x04
	aclOthers  = 0x20
)

// restrictNewFiles gives a directory a default ACL under which only the
// owner may use the files that are created in it. Badger creates most of
// its files with mode 0666, at any time and in goroutines of its own; an
// umask would be that of the whole process, and a default ACL takes its
// place (acl(5)).
func restrictNewFiles(dir string) error {
	acl := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, entry := range [][2]uint16{{aclOwner, 7}, {aclGroup, 0}, {aclOthers, 0}} {
		acl = binary.LittleEndian.AppendUint16(acl, entry[0])
		acl = binary.LittleEndian.AppendUint16(acl, entry[1])
		acl = binary.LittleEndian.AppendUint32(acl, math.MaxUint32)
	}
	return unix.Setxattr(dir, "system.posix_acl_default", acl, 0)
}
