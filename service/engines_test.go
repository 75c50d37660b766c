package service_test

import (
	"testing"

	"github.com/svcfs/svcfs/service/enginetest"
)

// TestOnPostgres runs once more, on PostgreSQL, the tests of what the engine of the database can break. With
// -engine=postgres all tests of this package run on PostgreSQL.
func TestOnPostgres(t *testing.T) {
	t.Parallel()
	enginetest.OnPostgresToo(t, map[string]func(*testing.T){
		// Locks and commits.
		"MoneyForTenUploadsPaysTen":               TestThreat27MoneyForTenUploadsPaysTen,
		"RotationKillsKeyAndTokens":               TestThreat23RotationKillsKeyAndTokens,
		"RevocationWinsEveryRace":                 TestThreat24RevocationWinsEveryRace,
		"FinalizeIsIdempotent":                    TestFinalizeIsIdempotent,
		"DeleteIsIdempotentAndTheFirstRecordWins": TestDeleteIsIdempotentAndTheFirstRecordWins,
		"DeletingWhatIsDeleted":                   TestThreat31DeletingWhatIsDeleted,
		"FinalizeUploads":                         TestFinalizeUploads,
		"PartsReplacedWhileFinished":              TestRecordsAtOnce,
		"BaseEndsWhileTheUploadIsUnderWay":        TestThreat49BaseEndsWhileTheUploadIsUnderWay,
		"DeletionRacesTakeover":                   TestThreat49DeletionRacesTakeover,
		"ReadsUnderWayEndCleanly":                 TestReadsUnderWayEndCleanly,
		"BytesOfOpenUploadsAtOnce":                TestThreat31BytesOfOpenUploadsAtOnce,
		"BytesKeptAtOnce":                         TestThreat31BytesKeptAtOnce,
		"FreeChanges":                             TestThreat31FreeChanges,
		"ChainIsSignedInPages":                    TestThreat8ChainIsSignedInPages,
		"RecordsCountByTheirBytes":                TestThreat31RecordsCountByTheirBytes,
		"ListsThatAMemberMakesLong":               TestThreat31ListsThatAMemberMakesLong,
		"FreeChangesLeaveTheReserve":              TestThreat31FreeChangesLeaveTheReserve,
		"DiskFilledByAnotherProgram":              TestThreat31DiskFilledByAnotherProgram,
		"RetentionRunsOnce":                       TestRetentionRunsOnce,
		"HistoryOfMembership":                     TestHistoryOfMembership,
		"HistoryOfContent":                        TestHistoryOfContent,
		"HistoryOfBalance":                        TestHistoryOfBalance,
		"MasterKeyRotationUnderLoad":              TestMasterKeyRotationUnderLoad,
		"WatchTellsWhatConcernsTheCaller":         TestWatchTellsWhatConcernsTheCaller,
		"InvitesWorkOnce":                         TestThreat75InvitesWorkOnce,
		"OneOfManyRedeemsAnInvite":                TestThreat75OneOfManyRedeems,
		"InvitesAreRecorded":                      TestThreat75InvitesAreRecorded,
		"InvitesMove":                             TestInvitesMove,
		"GroupInvites":                            TestThreat75GroupInvites,
		"GroupInvitesEndWithTheOwner":             TestThreat75GroupInvitesEndWithTheOwner,
		// Ids.
		"IdsOfOthers":               TestThreat56IdsOfOthers,
		"IdsStaySpent":              TestThreat57IdsStaySpent,
		"TagsOfSaves":               TestThreat57TagsOfSaves,
		"JournalKeys":               TestThreat56JournalKeys,
		"EndsOfJournals":            TestThreat58EndsOfJournals,
		"JournalEndedFromAnOldCopy": TestThreat52JournalEndedFromAnOldCopy,
		"SealedUpload":              TestSealedUpload,
		"EpochsEnd":                 TestThreat58EpochsEnd,
		// Verify, audit and scrub.
		"AuditNamesTheBadRow":                  TestThreat26AuditNamesTheBadRow,
		"AuditComparesEveryTableWithTheLedger": TestThreat26AuditComparesEveryTableWithTheLedger,
		"AuditFindsInventedAndMissingRows":     TestThreat26AuditFindsInventedAndMissingRows,
		"CheckpointsAreAFunctionOfTheLedger":   TestCheckpointsAreAFunctionOfTheLedger,
		"AnotherContractIsRefused":             TestAnotherContractIsRefused,
		"VerifyComparesStoredBytes":            TestVerifyComparesStoredBytes,
		"VerifyOfFilesInBlocks":                TestVerifyOfFilesInBlocks,
		"BytesOfSharedParts":                   TestBytesOfSharedParts,
		"AbandonedPartsGo":                     TestAbandonedPartsGo,
		"SweepInPieces":                        TestSweepInPieces,
		"UnusedParts":                          TestThreat31UnusedParts,
		"BlocksThatNobodyUsesGo":               TestBlocksThatNobodyUsesGo,
		"SpaceOfEndedVersionsComesBack":        TestSpaceOfEndedVersionsComesBack,
		"SmallContents":                        TestThreat34SmallContents,
		"Threat34":                             TestThreat34,
		"GuessableContent":                     TestThreat33GuessableContent,
		"NothingOfTheContentIsLeft":            TestThreat34NothingOfTheContentIsLeft,
		// Archives.
		"ExportUnderLoad":                       TestExportUnderLoad,
		"ExportEndsWhileFilesAreReplaced":       TestExportEndsWhileFilesAreReplaced,
		"ImportRefusesEverythingButAWholeChain": TestImportRefusesEverythingButAWholeChain,
		"DamageIsNamedAndTheRestSurvives":       TestDamageIsNamedAndTheRestSurvives,
		"ALostIncrementCostsNoOlderFile":        TestALostIncrementCostsNoOlderFile,
		"DeletedRowsStayDeletedInASalvage":      TestDeletedRowsStayDeletedInASalvage,
		"FilesInBlocksMove":                     TestFilesInBlocksMove,
		"TrashIsExported":                       TestTrashIsExported,
		"VersionsAreExported":                   TestVersionsAreExported,
		// Lists and pages.
		"PagingTellsEveryChangeOnce":      TestPagingTellsEveryChangeOnce,
		"ChainOfAGroupIsProven":           TestThreat26ChainOfAGroupIsProven,
		"RecordsOfAGroup":                 TestRecordsOfAGroup,
		"NamesAndFoldersAreProven":        TestThreat76NamesAndFoldersAreProven,
		"EveryViewIsAnswered":             TestEveryViewIsAnswered,
		"PagesOfGroups":                   TestThreat31PagesOfGroups,
		"TryVersionsInPages":              TestTryVersionsInPages,
		"VersionsOfLongNames":             TestVersionsOfLongNames,
		"TrashInTheListByChange":          TestTrashInTheListByChange,
		"LongestNamesInTheTrash":          TestLongestNamesInTheTrash,
		"RenameFolder":                    TestRenameFolder,
		"MakeFolder":                      TestMakeFolder,
		"RecordedFoldersAreRenamed":       TestRecordedFoldersAreRenamed,
		"RecordedFoldersAreBounded":       TestThreat31RecordedFoldersAreBounded,
		"FoldersWithLongNames":            TestFoldersWithLongNames,
		"FoldersOfNamesThatBeginAlike":    TestThreat31FoldersOfNamesThatBeginAlike,
		"PagesHoldRenamedFoldersAsAWhole": TestPagesHoldRenamedFoldersAsAWhole,
		// Accounts and roles.
		"GuessingIsSlowedDown":         TestThreat22GuessingIsSlowedDown,
		"SignInsAreLogged":             TestThreat32SignInsAreLogged,
		"DisabledAccount":              TestThreat44DisabledAccount,
		"RoleOperationMatrix":          TestRoleOperationMatrix,
		"RolesAreGivenByTheOwnerAlone": TestThreat25RolesAreGivenByTheOwnerAlone,
		"ExMemberGetsNoKey":            TestThreat35ExMemberGetsNoKey,
		"OpenGroups":                   TestOpenGroups,
		// Groups end.
		"MembersLeave":     TestMembersLeave,
		"GroupsAreDeleted": TestThreat45GroupsAreDeleted,
		"OffersWait":       TestThreat74OffersWait,
		// Values.
		"HostileInputIsOnlyAValue":    TestThreat28Threat29HostileInputIsOnlyAValue,
		"MasterKeyIsNeededAndGuarded": TestThreat33MasterKeyIsNeededAndGuarded,
		"UploadRetrieveListAndFees":   TestUploadRetrieveListAndFees,
	})
}
