package service_test

import (
	"testing"

	"github.com/svcfs/svcfs/service/enginetest"
)

// TestOnPostgres runs once more, on PostgreSQL, the tests of what the engine of the database can break. With
// -engine=postgres all tests of this package run on PostgreSQL.
func TestOnPostgres(t *testing.T) {
	t.Parallel()
	for name, tests := range map[string]map[string]func(*testing.T){
		"locks and commits": {
			"MoneyForTenUploadsPaysTen": TestThreat27MoneyForTenUploadsPaysTen,
			"RevocationWinsEveryRace":   TestThreat24RevocationWinsEveryRace,
			"FinalizeIsIdempotent":      TestFinalizeIsIdempotent,
			"DeleteIsIdempotent":        TestDeleteIsIdempotentAndTheFirstRecordWins,
			"DeletingWhatIsDeleted":     TestThreat31DeletingWhatIsDeleted,
			"FinalizeUploads":           TestFinalizeUploads,
			"PartsReplaced":             TestPartsReplacedWhileFinished,
			"BaseEnds":                  TestThreat49BaseEndsWhileTheUploadIsUnderWay,
			"DeletionRacesTakeover":     TestThreat49DeletionRacesTakeover,
			"ReadsUnderWay":             TestReadsUnderWayEndCleanly,
			"BytesOfOpenUploads":        TestThreat31BytesOfOpenUploadsAtOnce,
			"BytesKept":                 TestThreat31BytesKeptAtOnce,
			"FreeChanges":               TestThreat31FreeChanges,
			"RetentionRunsOnce":         TestRetentionRunsOnce,
			"HistoryOfMembership":       TestHistoryOfMembership,
			"HistoryOfContent":          TestHistoryOfContent,
			"HistoryOfBalance":          TestHistoryOfBalance,
			"MasterKeyRotation":         TestMasterKeyRotationUnderLoad,
			"Watch":                     TestWatchTellsWhatConcernsTheCaller,
		},
		"ids": {
			"OfOthers":      TestThreat56IdsOfOthers,
			"StaySpent":     TestThreat57IdsStaySpent,
			"OpenSealedKey": TestThreat57OpenSealedKey,
			"SealedUpload":  TestSealedUpload,
			"EpochsEnd":     TestThreat58EpochsEnd,
		},
		"verify, audit and scrub": {
			"Audit":             TestThreat26AuditNamesTheBadRow,
			"AuditOfTables":     TestThreat26AuditComparesEveryTableWithTheLedger,
			"AuditOfRows":       TestThreat26AuditFindsInventedAndMissingRows,
			"Checkpoints":       TestCheckpointsAreAFunctionOfTheLedger,
			"StoredBytes":       TestVerifyComparesStoredBytes,
			"FilesInBlocks":     TestVerifyOfFilesInBlocks,
			"SharedParts":       TestBytesOfSharedParts,
			"AbandonedParts":    TestAbandonedPartsGo,
			"UnusedParts":       TestThreat31UnusedParts,
			"UnusedBlocks":      TestBlocksThatNobodyUsesGo,
			"SpaceOfVersions":   TestSpaceOfEndedVersionsComesBack,
			"SmallContents":     TestThreat34SmallContents,
			"DestroyedContents": TestThreat34,
		},
		"archives": {
			"UnderLoad":     TestExportUnderLoad,
			"FilesInBlocks": TestFilesInBlocksMove,
			"Trash":         TestTrashIsExported,
			"Versions":      TestVersionsAreExported,
		},
		"lists and pages": {
			"EveryChangeOnce":     TestPagingTellsEveryChangeOnce,
			"ListingsInParts":     TestListingsInParts,
			"ChainOfAGroup":       TestThreat26ChainOfAGroupIsProven,
			"RecordsOfAGroup":     TestRecordsOfAGroup,
			"Views":               TestEveryViewIsAnswered,
			"PagesOfGroups":       TestThreat31PagesOfGroups,
			"PagesOfVersions":     TestTryVersionsInPages,
			"VersionsOfLongNames": TestVersionsOfLongNames,
			"ThinningInParts":     TestThinningInParts,
			"TrashByChange":       TestTrashInTheListByChange,
			"LongNamesInTheTrash": TestLongestNamesInTheTrash,
			"RenameFolder":        TestRenameFolder,
			"LongFolders":         TestFoldersWithLongNames,
			"FoldersBeginAlike":   TestThreat31FoldersOfNamesThatBeginAlike,
			"PagesOfFolders":      TestPagesHoldRenamedFoldersAsAWhole,
		},
		"accounts and roles": {
			"Guessing":        TestThreat22GuessingIsSlowedDown,
			"SignIns":         TestThreat32SignInsAreLogged,
			"DisabledAccount": TestThreat44DisabledAccount,
			"RoleMatrix":      TestRoleOperationMatrix,
			"RolesAreGiven":   TestThreat25RolesAreGivenByTheOwnerAlone,
			"ExMember":        TestThreat35ExMemberGetsNoKey,
			"OpenGroups":      TestOpenGroups,
		},
		"values": {
			"HostileInput": TestThreat28Threat29HostileInputIsOnlyAValue,
			"EveryField":   TestThreat29EveryFieldIsOnlyAValue,
			"MasterKey":    TestThreat33MasterKeyIsNeededAndGuarded,
			"Fees":         TestUploadRetrieveListAndFees,
		},
	} {
		t.Run(name, func(t *testing.T) { enginetest.OnPostgresToo(t, tests) })
	}
}
