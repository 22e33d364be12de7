CREATE TABLE "quota_reservation" ("action_id" VARCHAR(36) NOT NULL PRIMARY KEY, "place" VARCHAR(64) NOT NULL, "project" VARCHAR(255) NOT NULL, "stack_id" VARCHAR(36) NOT NULL, "root_id" VARCHAR(36) NOT NULL, "holder" LONGTEXT NOT NULL, "amounts" LONGTEXT NOT NULL, "parts" LONGTEXT NOT NULL, "read_at" REAL NOT NULL)
CREATE INDEX "quotareservation_place" ON "quota_reservation" ("place")
CREATE TABLE "quota_release" ("id" INTEGER NOT NULL PRIMARY KEY, "place" VARCHAR(64) NOT NULL, "amounts" LONGTEXT NOT NULL, "released_at" REAL NOT NULL)
CREATE INDEX "quotarelease_place_id" ON "quota_release" ("place", "id")
